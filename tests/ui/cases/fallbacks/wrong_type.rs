use limiter::{Rejected, rate_limit};

#[rate_limit(qps = 3, fallback = "busy")]
async fn get(id: u64) -> String {
    id.to_string()
}

async fn busy(id: u64, _: Rejected) -> u64 {
    id
}

#[rate_limit(qps = 3, fallback = sync_busy)]
async fn get_again(id: u64) -> String {
    id.to_string()
}

fn sync_busy(id: u64, _: Rejected) -> u64 {
    id
}

#[rate_limit(qps = 3, fallback = "sync_busy", store = "local")]
fn sync(id: u64) -> String {
    id.to_string()
}

fn main() {}
