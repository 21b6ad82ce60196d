//! Whose limit it is: a key from the arguments. Every function here lets one call per minute pass for each key.

use limiter::{LimitKey, rate_limit};

struct Person {
    id: u64,
}

/// Of the only argument, a field.
#[rate_limit(key = "id", qps = 1, window = "1m")]
async fn by_field(p: Person) -> Option<u64> {
    Some(p.id)
}

/// As web frameworks hand it over.
struct Path<T>(T);

/// A name inside a pattern.
#[rate_limit(key = "id", qps = 1, window = "1m")]
async fn by_pattern(Path(id): Path<u64>) -> Option<u64> {
    Some(id)
}

/// Several values together.
#[rate_limit(key = (tenant, p.id), qps = 1, window = "1m")]
async fn by_tuple(tenant: &str, p: Person) -> Option<String> {
    Some(format!("{tenant}/{}", p.id))
}

/// Any expression over the arguments.
#[rate_limit(key = "email.to_lowercase()", qps = 1, window = "1m")]
async fn by_expression(email: &str) -> Option<&str> {
    Some(email)
}

#[derive(LimitKey)]
enum Caller {
    User { tenant: String, id: u64 },
    Guest(std::net::IpAddr),
}

/// A type of one's own.
#[rate_limit(key = caller, qps = 1, window = "1m")]
async fn by_own_type(caller: Caller) -> Option<&'static str> {
    Some(match caller {
        Caller::User { .. } => "a user",
        Caller::Guest(_) => "a guest",
    })
}

/// No key: one limit for all.
#[rate_limit(qps = 1, window = "1m")]
async fn for_all(p: Person) -> Option<u64> {
    Some(p.id)
}

#[tokio::main]
async fn main() {
    println!("field       1: {:?}", by_field(Person { id: 1 }).await);
    println!("            1: {:?}", by_field(Person { id: 1 }).await);
    println!("            2: {:?}", by_field(Person { id: 2 }).await);

    println!("pattern     1: {:?}", by_pattern(Path(1)).await);
    println!("            1: {:?}", by_pattern(Path(1)).await);

    println!("tuple       acme/1: {:?}", by_tuple("acme", Person { id: 1 }).await);
    println!("            acme/1: {:?}", by_tuple("acme", Person { id: 1 }).await);
    println!("            umbr/1: {:?}", by_tuple("umbr", Person { id: 1 }).await);

    println!("expression  a@b.org: {:?}", by_expression("a@b.org").await);
    println!("            A@B.ORG: {:?}", by_expression("A@B.ORG").await);

    let user = || Caller::User { tenant: "acme".into(), id: 1 };
    println!("own type    user:  {:?}", by_own_type(user()).await);
    println!("            user:  {:?}", by_own_type(user()).await);
    println!("            guest: {:?}", by_own_type(Caller::Guest([127, 0, 0, 1].into())).await);

    println!("no key      1: {:?}", for_all(Person { id: 1 }).await);
    println!("            2: {:?}", for_all(Person { id: 2 }).await);
}
