use limiter::rate_limit;

#[rate_limit(qps = 3, store = "redis")]
async fn store(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, on_error = "alow")]
async fn on_error(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, mode = shadwo)]
async fn mode(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
