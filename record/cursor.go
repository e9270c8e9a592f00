package record

import "fmt"

// A cursor walks encoded records without making Records of them: it checks everything that Iterator
// does and keeps no header.
type cursor struct {
	p []byte
	i int
}

// rawRecord is one encoded record.
type rawRecord struct {
	timestampDelta int64
	offsetDelta    int32
	hasKey         bool
	hasValue       bool
	rest           []byte // key, value and headers as encoded
}

// next reads one record; ErrCorrupt is matched by the error.
func (c *cursor) next(r *rawRecord) error {
	length, i := varint32(c.p, c.i)
	if i < 0 || length < 1 || int(length) > len(c.p)-i {
		return fmt.Errorf("%w: bad record length", ErrCorrupt)
	}
	end := i + int(length)
	p := c.p[:end]
	i++ // attributes
	var ts uint64
	if i < len(p) && p[i] < 0x80 { // as in Iterator.Next
		ts = uint64(p[i])
		i++
	} else {
		ts, i = uvarint(p, i)
	}
	off, i := varint32(p, i)
	if i < 0 {
		return fmt.Errorf("%w: bad timestamp or offset of a record", ErrCorrupt)
	}
	r.timestampDelta, r.offsetDelta, r.rest = unzigzag(ts), off, p[i:]
	if r.hasKey = true; i < len(p) && p[i] == 1 {
		r.hasKey = false
		i++ // nil
	} else {
		r.hasKey, i = skipField(p, i)
	}
	r.hasValue, i = skipField(p, i)
	if i < 0 {
		return fmt.Errorf("%w: bad key or value of a record", ErrCorrupt)
	}
	if i != end-1 || p[i] != 0 {
		if i = skipHeaders(p, i); i != end {
			return fmt.Errorf("%w: bad headers of a record", ErrCorrupt)
		}
	}
	c.i = end
	return nil
}

// skipField returns whether the key or value at p[i:] is there and the index behind it, -1 if it is
// malformed.
func skipField(p []byte, i int) (bool, int) {
	n, i := varint32(p, i)
	switch {
	case i < 0 || n < -1 || int(n) > len(p)-i:
		return false, -1
	case n < 0:
		return false, i
	}
	return true, i + int(n)
}

func skipHeaders(p []byte, i int) int {
	n, i := varint32(p, i)
	if i < 0 || n < 0 || int(n) > (len(p)-i)/2 {
		return -1
	}
	for range n {
		var named bool
		if named, i = skipField(p, i); !named {
			return -1
		}
		if _, i = skipField(p, i); i < 0 {
			return -1
		}
	}
	return i
}
