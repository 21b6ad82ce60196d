use limiter::rate_limit;

#[rate_limit(qps = 3)]
struct Order {
    id: u64,
}

trait Orders {
    #[rate_limit(qps = 3)]
    async fn get(&self) -> Option<u64>;
}

const USED: Order = Order { id: 3 };

fn main() {}
