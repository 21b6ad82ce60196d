use limiter::rate_limit;
use std::pin::Pin;

type OrderFuture = Pin<Box<dyn Future<Output = Option<u64>>>>;

#[rate_limit(qps = 3)]
fn get() -> OrderFuture {
    Box::pin(async { Some(1) })
}

fn main() {}
