use limiter::rate_limit;

const MAX: &str = "3";

#[rate_limit(qps = "MAX")]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
