use limiter::rate_limit;

#[rate_limit]
async fn bare() -> Option<u64> {
    None
}

#[rate_limit(key = "id")]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
