use limiter::{Rejected, rate_limit};

#[rate_limit(qps = 3, fallback = "no_rejected")]
async fn one(id: u64) -> u64 {
    id
}

async fn no_rejected(id: u64) -> u64 {
    id
}

#[rate_limit(qps = 3, fallback = crate::another)]
async fn two(id: u64) -> u64 {
    id
}

async fn another(name: String, _: Rejected) -> u64 {
    name.len() as u64
}

#[rate_limit(qps = 3, fallback = "no_id")]
async fn three(id: u64) -> u64 {
    id
}

fn no_id(_: Rejected) -> u64 {
    0
}

#[rate_limit(qps = 3, fallback = "rejected_first")]
async fn four(id: u64) -> u64 {
    id
}

fn rejected_first(_: Rejected, id: u64) -> u64 {
    id
}

struct Service;

impl Service {
    #[rate_limit(qps = 3, fallback = "Self::no_self")]
    async fn five(&self, id: u64) -> u64 {
        id
    }

    fn no_self(id: u64, _: Rejected) -> u64 {
        id
    }
}

fn main() {}
