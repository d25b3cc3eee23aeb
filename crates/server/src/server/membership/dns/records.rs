//! Records: the SRV records of a name, which the system's resolver does not query.
//!
//! Name servers and search domains are those of /etc/resolv.conf, read again each time. A query
//! uses UDP, and TCP if the response is too long for that. Addresses in the response save a query
//! for each host; the system's resolver is used for the others.
//!
//! Source: RFC 1035, RFC 2782. Tests: below, tests/cluster_srv.rs.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use resolv_conf::Config;
use rustix::rand::{GetRandomFlags, getrandom};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE};

/// The resolver configuration of the system.
const CONFIG: &str = "/etc/resolv.conf";
/// Time limit for one server.
const PATIENCE: Duration = Duration::from_secs(1);
/// DNS's port.
const PORT: u16 = 53;
/// Longest UDP response without EDNS.
const DATAGRAM_BYTES_MAX: usize = 512;
/// Most servers and most domains that are tried.
const TRIED_MAX: usize = 6;

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServiceRecord {
    /// The host, without a dot at its end.
    pub(super) host: String,
    pub(super) port: u16,
    /// The first of its addresses.
    pub(super) address: IpAddr,
}

/// The SRV records of a name, in order.
///
/// # Errors
/// Why none could be read.
pub(super) fn look_up(name: &str) -> Result<Vec<ServiceRecord>, String> {
    let text = std::fs::read(CONFIG).map_err(|error| format!("{CONFIG}: {error}"))?;
    let (config, _) = Config::parse_with_errors(&text);
    let mut failure = "no DNS server answers".to_owned();
    for full in tried(name, &config) {
        match of_any_server(&full, &config) {
            Ok(records) if !records.is_empty() => return Ok(records),
            Ok(_) => failure = "the name has no SRV records".to_owned(),
            Err(reason) => failure = reason,
        }
    }
    Err(format!("DNS does not know the name: {failure}"))
}

/// The names to query for one, in the order of resolv.conf(5).
fn tried(name: &str, config: &Config) -> Vec<String> {
    if let Some(whole) = name.strip_suffix('.') {
        return vec![whole.to_owned()];
    }
    let domains = config.get_last_search_or_domain();
    let domains = domains.map(|domain| domain.trim_matches('.'));
    let behind = domains.filter(|domain| !domain.is_empty());
    let mut all: Vec<String> = behind
        .take(TRIED_MAX)
        .map(|domain| format!("{name}.{domain}"))
        .collect();
    let dots = name.bytes().filter(|byte| *byte == b'.').count();
    let at = if dots >= config.ndots as usize {
        0
    } else {
        all.len()
    };
    all.insert(at, name.to_owned());
    all
}

/// Queries the servers in order until one responds; no records if the name does not exist.
fn of_any_server(name: &str, config: &Config) -> Result<Vec<ServiceRecord>, String> {
    let mut failure = format!("{CONFIG} names no server");
    for server in config.nameservers.iter().take(TRIED_MAX) {
        let server = SocketAddr::new(IpAddr::from(server.clone()), PORT);
        match ask(server, name) {
            Ok(records) => return Ok(records),
            Err(reason) => failure = format!("{server}: {reason}"),
        }
    }
    Err(failure)
}

fn ask(server: SocketAddr, name: &str) -> Result<Vec<ServiceRecord>, String> {
    let mut id = [0; 2];
    getrandom(&mut id, GetRandomFlags::empty()).map_err(told)?;
    let id = u16::from_be_bytes(id);
    let mut question = Packet::new_query(id);
    question.set_flags(PacketFlag::RECURSION_DESIRED);
    let asked = Name::new(name).map_err(told)?;
    let asked = Question::new(asked, TYPE::SRV.into(), CLASS::IN.into(), false);
    question.questions.push(asked);
    let bytes = question.build_bytes_vec().map_err(told)?;
    let short = by_datagram(server, &bytes, id).map_err(told)?;
    let packet = Packet::parse(&short);
    if packet.is_ok_and(|packet| !packet.has_flags(PacketFlag::TRUNCATION)) {
        return read(&short, id);
    }
    read(&by_stream(server, &bytes).map_err(told)?, id)
}

/// A server's response by UDP. An attacker who forges one has to guess its port and its number.
fn by_datagram(server: SocketAddr, question: &[u8], id: u16) -> io::Result<Vec<u8>> {
    let own: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(question)?;
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    for _ in 0..TRIED_MAX {
        let bytes = socket.recv(&mut answer)?;
        if answer[..bytes].starts_with(&id.to_be_bytes()) {
            answer.truncate(bytes);
            return Ok(answer);
        }
    }
    Err(io::Error::other("the answers are for other requests"))
}

/// The same by TCP, each message behind its length.
fn by_stream(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// The records of a response; none if the name does not exist.
fn read(answer: &[u8], id: u16) -> Result<Vec<ServiceRecord>, String> {
    let packet = Packet::parse(answer).map_err(told)?;
    if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) {
        return Err("the answer is for another question".to_owned());
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(Vec::new()),
        code => return Err(format!("the DNS server returns {code:?}")),
    }
    let shown = |name: &Name<'_>| {
        let text = name.to_string().to_ascii_lowercase();
        text.trim_end_matches('.').to_owned()
    };
    let mut records = Vec::new();
    for record in &packet.answers {
        // An alias on the path to the records is not one of them.
        let RData::SRV(service) = &record.rdata else {
            continue;
        };
        let host = shown(&service.target);
        // RFC 2782: a target of "." means that the service does not exist.
        if host.is_empty() {
            continue;
        }
        let known = packet.additional_records.iter();
        let known = known.filter(|record| shown(&record.name) == host);
        let known = known.filter_map(|record| match &record.rdata {
            RData::A(one) => Some(IpAddr::from(Ipv4Addr::from(one.address))),
            RData::AAAA(one) => Some(IpAddr::from(Ipv6Addr::from(one.address))),
            _ => None,
        });
        let address = known.min().map_or_else(|| address_of(&host), Ok)?;
        records.push(ServiceRecord {
            host,
            port: service.port,
            address,
        });
    }
    records.sort();
    records.dedup();
    Ok(records)
}

/// A host's address, by the system's resolver.
fn address_of(host: &str) -> Result<IpAddr, String> {
    let whole = format!("{host}.");
    let found = (whole.as_str(), 0).to_socket_addrs();
    let found = found.map_err(|error| format!("{host}: {error}"))?;
    let first = found.map(|address| address.ip()).min();
    first.ok_or_else(|| format!("{host} has no address"))
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, SRV};

    use super::*;

    #[test]
    fn a_name_is_tried_by_itself_and_within_the_domains() {
        let (config, _) = Config::parse_with_errors(
            b"nameserver 10.0.0.1\nsearch shop.svc.cluster.local svc.cluster.local\n\
              options ndots:3\n",
        );
        let short = tried("_a._tcp.b", &config);
        assert_eq!(
            short,
            [
                "_a._tcp.b.shop.svc.cluster.local",
                "_a._tcp.b.svc.cluster.local",
                "_a._tcp.b"
            ]
        );
        assert_eq!(tried("_a._tcp.b.c", &config)[0], "_a._tcp.b.c");
        assert_eq!(tried("_a._tcp.b.", &config), ["_a._tcp.b"]);
    }

    fn service(host: &'static str, port: u16) -> ResourceRecord<'static> {
        let service = SRV {
            priority: 0,
            weight: 0,
            port,
            target: Name::new_unchecked(host),
        };
        let name = Name::new_unchecked("_a._tcp.b");
        ResourceRecord::new(name, CLASS::IN, 5, RData::SRV(service))
    }

    #[test]
    fn an_answer_has_hosts_ports_and_addresses() {
        let mut packet = Packet::new_reply(7);
        packet.answers = vec![service("B.c", 2), service("a.c", 1), service("a.c", 1)];
        for (host, last) in [("a.c", 9), ("a.c", 8), ("b.c", 7)] {
            let address = u32::from(Ipv4Addr::new(10, 0, 0, last));
            packet.additional_records.push(ResourceRecord::new(
                Name::new_unchecked(host),
                CLASS::IN,
                5,
                RData::A(A { address }),
            ));
        }
        let bytes = packet.build_bytes_vec_compressed().unwrap();
        let records = read(&bytes, 7).unwrap();
        let shown: Vec<String> = records
            .iter()
            .map(|record| format!("{}:{} {}", record.host, record.port, record.address))
            .collect();
        assert_eq!(shown, ["a.c:1 10.0.0.8", "b.c:2 10.0.0.7"]);
        assert!(read(&bytes, 8).is_err(), "it is for another question");
        assert!(read(&bytes[..30], 7).is_err());
        let mut nobody = Packet::new_reply(7);
        *nobody.rcode_mut() = RCODE::NameError;
        assert_eq!(read(&nobody.build_bytes_vec().unwrap(), 7), Ok(Vec::new()));
        *nobody.rcode_mut() = RCODE::ServerFailure;
        assert!(read(&nobody.build_bytes_vec().unwrap(), 7).is_err());
    }
}
