use limiter::rate_limit;

#[rate_limit(qps = 3, decision = "the decision")]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, decision = id)]
async fn hides(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, decision = d)]
#[rate_limit(qps = 4, decision = "d")]
#[cfg_attr(any(), rate_limit(qps = 5, decision = other))]
#[cfg_attr(not(any()), rate_limit(qps = 6, decision = other))]
async fn hide_each_other(id: u64) -> Option<u64> {
    Some(id + d.remaining() + other.remaining())
}

fn main() {}
