use limiter::rate_limit;

struct Person {
    id: u64,
}

#[rate_limit(qps = 3, key = "name")]
async fn get(p: Person) -> Option<u64> {
    Some(p.id)
}

fn main() {}
