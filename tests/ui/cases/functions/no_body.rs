use limiter::rate_limit;

trait Orders {
    #[rate_limit(qps = 3)]
    async fn get(&self) -> Option<u64>;
}

fn main() {}
