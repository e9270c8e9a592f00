package record

import "fmt"

// Codec is a compression codec; the values are those on the wire. Kafka: compression.type.
type Codec uint8

const (
	None Codec = iota
	Gzip
	Snappy // written in xerial framing; read in xerial framing and as a bare block
	LZ4    // LZ4 frame of independent 64 KiB blocks
	Zstd
)

var codecNames = [...]string{None: "none", Gzip: "gzip", Snappy: "snappy", LZ4: "lz4", Zstd: "zstd"}

// String returns Kafka's name of the codec for producers: "none", "gzip", "snappy", "lz4" or
// "zstd".
func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// ParseCodec is the inverse of String. It also accepts "uncompressed", the name used in topic
// configurations. The error matches ErrUnsupportedCodec.
func ParseCodec(name string) (Codec, error) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	if name == "uncompressed" {
		return None, nil
	}
	return None, fmt.Errorf("%w: %q", ErrUnsupportedCodec, name)
}
