use limiter::rate_limit;

#[rate_limit(qps = 3, name = "")]
async fn empty(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, name = "a\nb")]
async fn with_a_newline(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, name = 7 + 1)]
async fn bare(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
