use limiter::rate_limit;

struct Person {
    id: u64,
}

#[rate_limit(qps = 3, key = "id")]
async fn paths(p: Person, order: Person) -> Option<u64> {
    Some(p.id + order.id)
}

#[rate_limit(qps = 3, key = persn)]
async fn near(person: Person, order: Person) -> Option<u64> {
    Some(person.id + order.id)
}

#[rate_limit(qps = 3, key = "id")]
async fn none() -> Option<u64> {
    None
}

impl Person {
    #[rate_limit(qps = 3, key = "id")]
    async fn method(&self) -> Option<u64> {
        Some(self.id)
    }
}

fn main() {}
