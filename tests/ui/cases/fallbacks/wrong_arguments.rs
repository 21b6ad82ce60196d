use limiter::{Rejected, rate_limit};

#[rate_limit(qps = 3, fallback = "no_rejected")]
async fn get(id: u64) -> u64 {
    id
}

async fn no_rejected(id: u64) -> u64 {
    id
}

#[rate_limit(qps = 3, fallback = crate::another)]
async fn get_again(id: u64) -> u64 {
    id
}

async fn another(name: String, _: Rejected) -> u64 {
    name.len() as u64
}

fn main() {}
