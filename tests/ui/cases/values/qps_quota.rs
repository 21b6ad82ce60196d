use limiter::rate_limit;

#[rate_limit(qps = "3/s")]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
