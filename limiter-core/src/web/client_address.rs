//! Who calls: the peer, or whom trusted proxies speak for.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::forwarded::{forwarded, x_forwarded_for};
use super::network::{Network, NetworkError};
use crate::{Key, LimitKey};

/// The address of the client that a request comes from, to be the key of a limit.
///
/// As a key, all addresses of one IPv6 network (a /64) are one client: whoever has one of them has them all.
///
/// In axum and actix-web it is an extractor. It is the address of the peer; where the service stands behind proxies, say
/// which, and it is whom they speak for. See [`TrustedProxies`].
///
/// ```
/// # #[cfg(feature = "axum")] {
/// # extern crate limiter_core as limiter;
/// use axum::{Extension, Router, routing::post};
/// use limiter::web::{ClientAddress, TrustedProxies};
///
/// // #[rate_limit(key = "client", qps = 5, window = "1m")]
/// async fn login(client: ClientAddress) -> String {
///     format!("hello {}", client.ip())
/// }
///
/// let shop: Router = Router::new()
///     .route("/login", post(login))
///     .layer(Extension(TrustedProxies::x_forwarded_for(["10.0.0.0/8"]).unwrap()));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// The client with this address. An IPv4 address in IPv6's clothes counts as what it is.
    pub fn new(address: IpAddr) -> Self {
        Self(address.to_canonical())
    }

    /// The address itself.
    pub fn ip(&self) -> IpAddr {
        self.0
    }

    /// What is one client: the address itself, or the first of the IPv6 network (a /64) that it is in.
    pub fn network(&self) -> IpAddr {
        match self.0 {
            IpAddr::V4(_) => self.0,
            IpAddr::V6(_) => Network::around(self.0, 64).first(),
        }
    }
}

impl LimitKey for ClientAddress {
    fn encode(&self, key: &mut Key) {
        self.network().encode(key);
    }
}

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self::new(address)
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The proxies that are believed when they say for whom they speak, and where they say it.
///
/// In axum it is an `Extension` of the router, in actix-web `app_data`. Without it, nobody is believed.
///
/// Name the field that your proxies write. The other one is not looked at, since they pass it on as the client sent it.
#[derive(Clone, Debug)]
pub struct TrustedProxies {
    field: Field,
    networks: Arc<[Network]>,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    XForwardedFor,
    Forwarded,
}

impl TrustedProxies {
    /// Proxies in these networks, such as `10.0.0.0/8`, that write `X-Forwarded-For`.
    ///
    /// # Errors
    ///
    /// If one of them is not a network.
    pub fn x_forwarded_for<N: AsRef<str>>(
        networks: impl IntoIterator<Item = N>,
    ) -> Result<Self, NetworkError> {
        Self::new(Field::XForwardedFor, networks)
    }

    /// Proxies in these networks, such as `10.0.0.0/8`, that write `Forwarded` (RFC 7239).
    ///
    /// # Errors
    ///
    /// If one of them is not a network.
    pub fn forwarded<N: AsRef<str>>(networks: impl IntoIterator<Item = N>) -> Result<Self, NetworkError> {
        Self::new(Field::Forwarded, networks)
    }

    fn new<N: AsRef<str>>(field: Field, networks: impl IntoIterator<Item = N>) -> Result<Self, NetworkError> {
        let networks =
            networks.into_iter().map(|network| network.as_ref().parse()).collect::<Result<_, _>>()?;
        Ok(Self { field, networks })
    }

    /// The name of the field that is looked at, in lower case.
    pub fn field_name(&self) -> &'static str {
        match self.field {
            Field::XForwardedFor => "x-forwarded-for",
            Field::Forwarded => "forwarded",
        }
    }

    /// Who calls, when the request came from `peer` with these `lines` of the field, in their order.
    ///
    /// It is the last address that no trusted proxy has, as the proxies tell it, from the peer on back. Where one of them
    /// does not tell an address, it is that proxy.
    ///
    /// ```
    /// # extern crate limiter_core as limiter;
    /// use limiter::web::TrustedProxies;
    ///
    /// let proxies = TrustedProxies::x_forwarded_for(["10.0.0.0/8"])?;
    /// let lines = || [b"192.0.2.66, 192.0.2.7".as_slice(), b"10.0.0.2"];
    /// assert_eq!(proxies.client("10.0.0.1".parse()?, lines()).to_string(), "192.0.2.7");
    /// assert_eq!(proxies.client("192.0.2.9".parse()?, lines()).to_string(), "192.0.2.9");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn client<'a, I>(&self, peer: IpAddr, lines: I) -> ClientAddress
    where
        I: IntoIterator<Item = &'a [u8]>,
    {
        let mut nearest = peer.to_canonical();
        if !self.trusts(nearest) {
            return ClientAddress(nearest);
        }
        let lines: Vec<_> = lines.into_iter().collect();
        let hops = lines.into_iter().rev().flat_map(|line| self.addresses(line).into_iter().rev());
        for hop in hops {
            let Some(address) = hop else { break };
            nearest = address;
            if !self.trusts(nearest) {
                break;
            }
        }
        ClientAddress(nearest)
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    fn addresses(&self, line: &[u8]) -> Vec<Option<IpAddr>> {
        match self.field {
            Field::XForwardedFor => x_forwarded_for(line),
            Field::Forwarded => forwarded(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(proxies: &TrustedProxies, peer: &str, lines: &[&str]) -> String {
        proxies.client(peer.parse().unwrap(), lines.iter().map(|line| line.as_bytes())).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let by_x = TrustedProxies::x_forwarded_for(["10.0.0.0/8", "fd00::/8"]).unwrap();
        let by_standard = TrustedProxies::forwarded(["10.0.0.0/8", "fd00::/8"]).unwrap();
        // The addresses from left to right, who the peer is, and who the client is then.
        let cases: &[(&[&str], &str, &str)] = &[
            (&[], "192.0.2.1", "192.0.2.1"),
            (&["203.0.113.1"], "192.0.2.1", "192.0.2.1"),
            (&[], "10.0.0.1", "10.0.0.1"),
            (&["203.0.113.1"], "10.0.0.1", "203.0.113.1"),
            (&["203.0.113.1"], "::ffff:10.0.0.1", "203.0.113.1"),
            (&["198.51.100.1", "203.0.113.1"], "10.0.0.1", "203.0.113.1"),
            (&["198.51.100.1", "203.0.113.1", "10.0.0.2", "fd00::7"], "10.0.0.1", "203.0.113.1"),
            (&["10.0.0.3", "10.0.0.2"], "10.0.0.1", "10.0.0.3"),
            (&["203.0.113.1", "unknown", "10.0.0.2"], "10.0.0.1", "10.0.0.2"),
            (&["203.0.113.1", "unknown"], "10.0.0.1", "10.0.0.1"),
        ];
        for (hops, peer, expected) in cases {
            assert_eq!(client(&by_x, peer, &[&hops.join(", ")]), *expected, "{hops:?}");
            assert_eq!(client(&by_x, peer, hops), *expected, "a line for each of {hops:?}");
            let pairs: Vec<String> = hops.iter().map(|hop| pair(hop)).collect();
            let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
            assert_eq!(client(&by_standard, peer, &[&pairs.join(", ")]), *expected, "{pairs:?}");
            assert_eq!(client(&by_standard, peer, &pairs), *expected, "a line for each of {pairs:?}");
        }
    }

    fn pair(hop: &str) -> String {
        if hop.contains(':') { format!("for=\"[{hop}]\"") } else { format!("for={hop}") }
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let key = |address: &str| Key::of(&ClientAddress::new(address.parse().unwrap())).as_bytes().to_vec();
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
    }

    /// Small and good enough for random requests, and the same everywhere.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 33).unwrap() % bound
        }

        fn of<T: Copy>(&mut self, choices: &[T]) -> T {
            choices[self.below(choices.len())]
        }
    }

    const STRANGERS: [&str; 4] = ["192.0.2.1", "203.0.113.77", "2001:db8::1", "198.51.100.4"];
    const PROXIES: [&str; 4] = ["10.0.0.1", "10.9.8.7", "fd00::1", "fdff::2"];

    /// One address as somebody may spell it, in this field.
    fn spelled(random: &mut Random, field: Field, address: &str) -> String {
        let port = random.of(&["", ":80", ":65535"]);
        let node = match (address.contains(':'), field) {
            (true, Field::XForwardedFor) if port.is_empty() && random.below(2) == 0 => address.to_owned(),
            (true, _) => format!("[{address}]{port}"),
            (false, _) => format!("{address}{port}"),
        };
        match field {
            Field::XForwardedFor => node,
            Field::Forwarded => {
                let name = random.of(&["for", "For", "FOR"]);
                let [before, behind] =
                    random.of(&[["", ""], ["proto=https;", ""], ["", ";by=\"a,b;for=1.1.1.1\""]]);
                format!("{before}{name}=\"{node}\"{behind}")
            }
        }
    }

    #[test]
    fn the_client_is_the_last_stranger_however_it_is_spelled() {
        let mut random = Random(0x5eed);
        for _ in 0..20_000 {
            let field = random.of(&[Field::XForwardedFor, Field::Forwarded]);
            let proxies = TrustedProxies::new(field, ["10.0.0.0/8", "fd00::/8"]).unwrap();
            let hops: Vec<&str> = (0..random.below(6))
                .map(|_| if random.below(3) == 0 { random.of(&STRANGERS) } else { random.of(&PROXIES) })
                .collect();
            let mut lines = vec![String::new()];
            for hop in &hops {
                let hop = spelled(&mut random, field, hop);
                match lines.last_mut().unwrap() {
                    line if line.is_empty() => line.push_str(&hop),
                    _ if random.below(3) == 0 => lines.push(hop),
                    line => line.extend([random.of(&[",", ", ", " ,\t"]), &hop]),
                }
            }
            let peer = if random.below(4) == 0 { random.of(&STRANGERS) } else { random.of(&PROXIES) };
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            // From the peer on back, as far as each one is trusted.
            let way = std::iter::once(peer).chain(hops.iter().rev().copied());
            let trusted = way.clone().take_while(|hop| PROXIES.contains(hop)).count();
            let expected = way.clone().nth(trusted).or(way.last()).unwrap();
            assert_eq!(client(&proxies, peer, &lines), expected, "{peer} sent {lines:?}");
        }
    }

    #[test]
    fn nothing_that_a_client_sends_changes_what_a_proxy_says() {
        const SIGNS: &[u8] = b"\"\\,;=:[]_ \tfor10.2unkwxyz\x00\xff%";
        let mut random = Random(0xf00d);
        for _ in 0..50_000 {
            let field = random.of(&[Field::XForwardedFor, Field::Forwarded]);
            let proxies = TrustedProxies::new(field, ["10.0.0.0/8"]).unwrap();
            let real = random.of(&STRANGERS);
            let mut line: Vec<u8> = (0..random.below(40)).map(|_| random.of(SIGNS)).collect();
            if random.below(2) == 0 {
                line.extend_from_slice(spelled(&mut random, field, "198.51.100.99").as_bytes());
            }
            let forged = line.clone();
            line.extend_from_slice(b", ");
            line.extend_from_slice(spelled(&mut random, field, real).as_bytes());
            let found = proxies.client("10.0.0.1".parse().unwrap(), [line.as_slice()]).to_string();
            // Where the client has made the line unreadable, the proxy is all that is known.
            let expected = [real, "10.0.0.1"];
            assert!(expected.contains(&found.as_str()), "{found} by {:?}", String::from_utf8_lossy(&line));
            // From a stranger nothing is believed at all.
            let peer = random.of(&STRANGERS);
            assert_eq!(proxies.client(peer.parse().unwrap(), [forged.as_slice()]).to_string(), peer);
        }
    }
}
