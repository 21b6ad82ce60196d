use limiter::rate_limit;

#[rate_limit(strategy = "token_bucket", qps = 3, samples = 10)]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
