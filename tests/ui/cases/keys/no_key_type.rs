use limiter::{LimitKey, rate_limit};

struct Point {
    x: f64,
}

#[rate_limit(qps = 3, key = "p")]
async fn get(p: Point) -> Option<f64> {
    Some(p.x)
}

#[derive(LimitKey)]
struct Wrapper {
    point: Point,
    id: u64,
}

fn main() {}
