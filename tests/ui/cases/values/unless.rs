use limiter::rate_limit;

#[rate_limit(qps = 3, unless = "id ==")]
async fn unreadable(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, unless = "id")]
async fn no_bool(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
