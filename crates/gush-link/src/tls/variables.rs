//! The environment variables that describe a session of TLS and the peer's certificate, as socat
//! sets them.

use rustls::{CipherSuite, ProtocolVersion};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use super::Agreed;
use super::names::alternative_names;

/// The parts of a name: the number (X.520, RFC 4519), the short name and the end of the variable's.
const PARTS: &[(&str, &str, &str)] = &[
    ("2.5.4.3", "CN", "COMMONNAME"),
    ("2.5.4.4", "SN", "SURNAME"),
    ("2.5.4.5", "serialNumber", "SERIALNUMBER"),
    ("2.5.4.6", "C", "COUNTRYNAME"),
    ("2.5.4.7", "L", "LOCALITYNAME"),
    ("2.5.4.8", "ST", "STATEORPROVINCENAME"),
    ("2.5.4.10", "O", "ORGANIZATIONNAME"),
    ("2.5.4.11", "OU", "ORGANIZATIONALUNITNAME"),
    ("2.5.4.12", "title", "TITLE"),
    ("2.5.4.42", "GN", "GIVENNAME"),
    ("1.2.840.113549.1.9.1", "emailAddress", "EMAILADDRESS"),
    ("0.9.2342.19200300.100.1.1", "UID", "USERID"),
    ("0.9.2342.19200300.100.1.25", "DC", "DOMAINCOMPONENT"),
];

const PREFIX: &str = "SOCAT_OPENSSL";
const CERTIFICATE: &str = "SOCAT_OPENSSL_X509";

/// Between several values of one variable.
const NEXT: &str = " // ";

/// Every variable, with its value if there is one; an inherited one is another peer's.
pub(crate) fn variables(agreed: Option<&Agreed>) -> Vec<(String, Option<String>)> {
    let certificate = agreed.and_then(|agreed| agreed.certificate.as_deref());
    let parsed = certificate.and_then(|der| X509Certificate::from_der(der).ok());
    let own = parsed.as_ref().map(|(_, own)| own);
    let mut all = vec![
        (format!("{PREFIX}_PROTO_VERSION"), agreed.and_then(|agreed| version(agreed.version?))),
        (format!("{PREFIX}_CIPHER"), agreed.and_then(|agreed| cipher(agreed.suite?))),
        (format!("{CERTIFICATE}_SUBJECT"), own.map(|own| one_line(own.subject()))),
        (format!("{CERTIFICATE}_ISSUER"), own.map(|own| one_line(own.issuer()))),
        (
            format!("{CERTIFICATE}V3_SUBJECTALTNAME_DNS"),
            own.and_then(|own| alternatives(own, "DNS")),
        ),
        (
            format!("{CERTIFICATE}V3_SUBJECTALTNAME_IPADD"),
            own.and_then(|own| alternatives(own, "IP")),
        ),
    ];
    for (number, _, name) in PARTS {
        let values = own.map(|own| values(own.subject(), number)).filter(|all| !all.is_empty());
        all.push((format!("{CERTIFICATE}_{name}"), values.map(|all| all.join(NEXT))));
    }
    all
}

fn values(name: &X509Name<'_>, number: &str) -> Vec<String> {
    let parts = name.iter_attributes().filter(|part| part.attr_type().to_id_string() == number);
    parts.filter_map(|part| part.as_str().ok()).map(str::to_owned).collect()
}

/// `C = XY, CN = localhost`, as `openssl x509 -nameopt oneline` shows it.
fn one_line(name: &X509Name<'_>) -> String {
    let parts = name.iter_attributes().map(|part| {
        let number = part.attr_type().to_id_string();
        let known = PARTS.iter().find(|(known, ..)| *known == number);
        let short = known.map_or(number.as_str(), |(_, short, _)| short);
        format!("{short} = {}", quoted(part.as_str().unwrap_or_default()))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// In quotes where it would look like more than one part (RFC 2253, 2.4), on one line.
fn quoted(value: &str) -> String {
    let is_plain = !value.contains([',', '+', '"', '\\', '<', '>', ';'])
        && !value.starts_with(['#', ' '])
        && !value.ends_with(' ');
    let escaped = value.chars().map(|letter| match letter {
        '\\' | '"' => format!("\\{letter}"),
        // A line end would look like another variable where programs list them.
        _ if letter.is_ascii_control() => format!("\\{:02X}", u32::from(letter)),
        _ => letter.to_string(),
    });
    let escaped: String = escaped.collect();
    match is_plain {
        true => escaped,
        false => format!("\"{escaped}\""),
    }
}

/// The alternative names of one kind.
fn alternatives(own: &X509Certificate<'_>, kind: &str) -> Option<String> {
    let mut names = alternative_names(own)?;
    names.retain(|name| name.kind == kind);
    let texts: Vec<_> = names.into_iter().map(|name| name.text).collect();
    (!texts.is_empty()).then(|| texts.join(NEXT))
}

fn version(version: ProtocolVersion) -> Option<String> {
    Some(version.as_str()?.replace('_', "."))
}

/// `ECDHE-RSA-AES256-GCM-SHA384`, as OpenSSL names it.
fn cipher(suite: CipherSuite) -> Option<String> {
    let name = suite.as_str()?;
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return Some(format!("TLS_{rest}"));
    }
    let name = name.strip_prefix("TLS_")?.replace("_WITH_AES_", "_AES").replace("_WITH_", "_");
    Some(name.replace("POLY1305_SHA256", "POLY1305").replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_described_as_by_openssl() {
        for (suite, shown) in [
            (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
            (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256"),
            (
                CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
                "ECDHE-RSA-CHACHA20-POLY1305",
            ),
        ] {
            assert_eq!(cipher(suite).as_deref(), Some(shown));
        }
        assert_eq!(version(ProtocolVersion::TLSv1_2).as_deref(), Some("TLSv1.2"));
    }

    #[test]
    fn a_value_stays_one_line_as_openssl_shows_it() {
        for (value, shown) in [
            ("a\tb\nc\u{7f}", r"a\09b\0Ac\7F"),
            ("a\t, b", r#""a\09, b""#),
            (r#"a\ "b""#, r#""a\\ \"b\"""#),
            ("\u{e9}", "\u{e9}"),
        ] {
            assert_eq!(quoted(value), shown);
        }
    }
}
