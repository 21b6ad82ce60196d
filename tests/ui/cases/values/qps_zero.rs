use limiter::rate_limit;

#[rate_limit(qps = 0)]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = "0")]
async fn quoted(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
