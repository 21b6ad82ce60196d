use limiter::rate_limit;

#[rate_limit(qps = 3, fallback = "busy(id)")]
async fn called(id: u64) -> u64 {
    id
}

fn main() {}
