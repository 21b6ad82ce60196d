use limiter::LimitKey;

#[derive(LimitKey)]
union Bits {
    a: u32,
}

#[derive(LimitKey)]
#[limit_key(path = "shop::limiter")]
struct Named {
    id: u64,
}

fn main() {}
