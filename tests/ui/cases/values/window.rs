use limiter::rate_limit;

#[rate_limit(qps = 3, window = "4x")]
async fn unreadable(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, window = 0s)]
async fn zero(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, window = "-4s")]
async fn negative(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, window = "1001d")]
async fn too_long(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
