use limiter::rate_limit;

#[rate_limit(qps = 3, name = "")]
async fn empty(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, name = "a\nb")]
async fn control(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
