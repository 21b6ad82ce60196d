use limiter::rate_limit;

#[rate_limit(qps = 3)]
struct Order {
    id: u64,
}

#[rate_limit(qps = 3)]
pub(crate) enum Kind {
    Order,
}

#[rate_limit(qps = 3)]
impl Order {
    async fn get(&self) -> Option<u64> {
        Some(self.id)
    }
}

#[rate_limit(qps = 3)]
mod orders {}

#[rate_limit(qps = 3)]
unsafe impl Sync for Order {}

fn main() {}
