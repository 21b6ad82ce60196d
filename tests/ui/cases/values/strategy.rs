use limiter::rate_limit;

#[rate_limit(strategy = "SlidingWindow", qps = 3)]
async fn near(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(strategy = "gcra", qps = 3)]
async fn far(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(strategy = limiter::Strategy::TokenBucket, qps = 3)]
async fn a_path(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
