use limiter::rate_limit;

#[rate_limit(qps = 3, cost = 0)]
async fn nothing(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, cost = 1.5)]
async fn a_fraction(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, cost = "text")]
async fn a_text(text: String) -> Option<String> {
    Some(text)
}

fn main() {}
