use limiter::rate_limit;

#[rate_limit(qps = 3)]
async fn get_total() {}

#[rate_limit(qps = 3)]
fn boxed() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async {})
}

#[rate_limit(qps = 3)]
async fn opaque() -> impl Iterator<Item = u64> {
    std::iter::empty()
}

#[rate_limit(qps = 3)]
async fn text() -> String {
    String::new()
}

struct MyError;

#[rate_limit(qps = 3)]
async fn other_error() -> Result<u64, MyError> {
    Ok(3)
}

fn main() {}
