use limiter::rate_limit;

#[rate_limit(qps = 3, fallback = "busi")]
async fn get(id: u64) -> u64 {
    id
}

fn main() {}
