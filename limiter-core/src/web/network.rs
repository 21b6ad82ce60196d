//! Networks of addresses, as one writes them: `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// All addresses that start with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    first: IpAddr,
    prefix: u32,
}

impl Network {
    /// The network of this many bits that an address is in.
    pub(crate) fn around(address: IpAddr, prefix: u32) -> Self {
        Self { first: masked(address, prefix), prefix }
    }

    pub(crate) fn first(self) -> IpAddr {
        self.first
    }

    /// Whether the address, which is canonical, is in the network. An IPv4 address is in none of IPv6.
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && masked(address, self.prefix) == self.first
    }
}

fn masked(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let unreadable = || NetworkError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| unreadable())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= most).ok_or_else(unreadable)?
            }
            Some(_) => return Err(unreadable()),
        };
        // Peers that come by IPv4 are told by their IPv4 address, also on a socket of IPv6.
        match address.to_canonical() {
            canonical if canonical == address => Ok(Self::around(address, prefix)),
            canonical => Ok(Self::around(canonical, prefix.checked_sub(96).ok_or_else(unreadable)?)),
        }
    }
}

/// A text that names no network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError(String);

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a network; write it like \"10.0.0.0/8\", \"fd00::/8\" or \"192.0.2.1\"",
            self.0
        )
    }
}

impl std::error::Error for NetworkError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_what_starts_alike() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "203.0.113.9", false),
            ("2001:db8::/64", "2001:db8::ffff:1", true),
            ("2001:db8::/64", "2001:db8:0:1::1", false),
            ("::1", "::1", true),
            ("::ffff:10.0.0.0/104", "10.1.1.1", true),
            ("::ffff:10.0.0.0/104", "11.1.1.1", false),
        ];
        for (network, address, contained) in cases {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(parsed.contains(address.parse().unwrap()), contained, "{address} in {network}");
        }
    }

    #[test]
    fn says_what_is_no_network() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "host",
            "::ffff:1.2.3.4/95",
        ] {
            assert_eq!(text.parse::<Network>(), Err(NetworkError(text.to_owned())));
        }
    }
}
