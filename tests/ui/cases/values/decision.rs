use limiter::rate_limit;

#[rate_limit(qps = 3, decision = "the decision")]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, decision = id)]
async fn hides(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
