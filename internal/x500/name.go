package x500

import (
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is matched by errors about a malformed distinguished name.
var ErrInvalid = errors.New("x500: invalid distinguished name")

// attribute is one type and value of a name. The value is still encoded.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type relativeNameSET []attribute

// keywords are the attribute types with a keyword in RFC 2253. Any other type is written as
// numbers, with its value in hexadecimal.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O", "2.5.4.11": "OU",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// Name returns the distinguished name that der encodes (x509.Certificate.RawSubject), the last
// relative name first. The error matches ErrInvalid. Java: X500Principal.getName.
func Name(der []byte) (string, error) {
	var names []relativeNameSET
	if rest, err := asn1.Unmarshal(der, &names); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	} else if len(rest) > 0 {
		return "", fmt.Errorf("%w: bytes behind it", ErrInvalid)
	}
	var b strings.Builder
	for i := len(names) - 1; i >= 0; i-- {
		if len(names[i]) == 0 {
			return "", fmt.Errorf("%w: an empty relative name", ErrInvalid)
		}
		for j, a := range names[i] {
			if j > 0 {
				b.WriteByte('+')
			}
			a.writeTo(&b)
		}
		if i > 0 {
			b.WriteByte(',')
		}
	}
	return b.String(), nil
}

func (a attribute) writeTo(b *strings.Builder) {
	keyword, known := keywords[a.Type.String()]
	if !known {
		keyword = a.Type.String()
	}
	b.WriteString(keyword)
	b.WriteByte('=')
	if !known || !isText(a.Value) {
		b.WriteByte('#')
		b.WriteString(hex.EncodeToString(a.Value.FullBytes))
		return
	}
	b.WriteString(escape(string(a.Value.Bytes)))
}

const tagGeneralString, tagBMPString = 27, 30

// isText reports whether a value is of a type that is written as text.
func isText(v asn1.RawValue) bool {
	if v.Class != asn1.ClassUniversal {
		return false
	}
	switch v.Tag {
	case asn1.TagPrintableString, asn1.TagT61String, asn1.TagIA5String, asn1.TagUTF8String, tagGeneralString, tagBMPString:
		return true
	}
	return false
}

// escape escapes a value with backslashes, so that it cannot change the structure of the name:
// before separators, and before blanks at both ends. Bytes that are not UTF-8 become U+FFFD.
func escape(value string) string {
	var b strings.Builder
	for _, r := range value { // invalid bytes come as U+FFFD
		switch {
		case strings.ContainsRune(`,=+<>#;"\`, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == 0:
			b.WriteString(`\00`)
		default:
			b.WriteRune(r)
		}
	}
	s := b.String()
	const blanks = " \r"
	left := strings.TrimLeft(s, blanks)
	lead := s[:len(s)-len(left)]
	core := strings.TrimRight(left, blanks)
	return slashed(lead) + core + slashed(left[len(core):])
}

// slashed puts a backslash before each byte.
func slashed(blanks string) string {
	var b strings.Builder
	for i := range len(blanks) {
		b.WriteByte('\\')
		b.WriteByte(blanks[i])
	}
	return b.String()
}
