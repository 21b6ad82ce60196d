use limiter::rate_limit;

#[rate_limit(qps = 3, crate = "shop limiter")]
async fn unreadable(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, crate = "shop::limiter")]
async fn nowhere(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
