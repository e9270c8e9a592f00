package record

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

type gzipWriter struct {
	out appender
	z   *gzip.Writer
}

type gzipReader struct {
	in bytes.Reader
	z  gzip.Reader
}

var (
	gzipWriters = sync.Pool{New: func() any { return &gzipWriter{z: gzip.NewWriter(nil)} }}
	gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}
)

// compressGzip appends one member with an empty header, as Java's GZIPOutputStream writes it.
func compressGzip(dst, p []byte) []byte {
	w := gzipWriters.Get().(*gzipWriter)
	defer gzipWriters.Put(w)
	w.out.p = dst
	w.z.Reset(&w.out)
	w.z.ModTime = time.Unix(0, 0) // none
	// Neither fails: an appender takes everything.
	_, _ = w.z.Write(p)
	_ = w.z.Close()
	dst, w.out.p = w.out.p, nil
	return dst
}

// gzipTrusted is the size up to which the output grows while it is read. The rest of a larger one
// is first counted without being kept: gzip reaches a thousandfold, and its header has no size.
const gzipTrusted = 1 << 20

func decompressGzip(dst, p []byte, limit int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer func() {
		r.in.Reset(nil)
		gzipReaders.Put(r)
	}()
	out, err := r.read(dst, p, min(limit, gzipTrusted))
	if err != errMore {
		return out, err
	}
	// More than trusted: the size is known after counting, so that a second pass needs one
	// allocation, or none at all.
	n, err := r.count(len(out)-len(dst), limit)
	if err != nil {
		return nil, err
	}
	// Room for one byte more, or the end would not be seen.
	return r.read(slices.Grow(dst, n+1), p, n)
}

// errMore is returned if there are more bytes than the limit.
var errMore = io.ErrShortBuffer

// read appends everything if that is at most limit bytes, otherwise a little more than limit bytes
// and returns errMore.
func (r *gzipReader) read(dst, p []byte, limit int) ([]byte, error) {
	r.in.Reset(p)
	if err := r.z.Reset(&r.in); err != nil {
		return nil, corrupt(Gzip, err)
	}
	for end := len(dst) + limit; ; {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(max(4*len(p), 512), limit+1))
		}
		n, err := r.z.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err != nil && err != io.EOF {
			return nil, corrupt(Gzip, err)
		}
		if len(dst) > end {
			return dst, errMore
		}
		if err == io.EOF {
			return dst, nil
		}
	}
}

// count returns have plus the number of unread bytes, or ErrTooLarge if the sum passes limit.
func (r *gzipReader) count(have, limit int) (int, error) {
	s := getScratch()
	defer putScratch(s)
	s.p = slices.Grow(s.p[:0], 32<<10)
	for have <= limit {
		n, err := r.z.Read(s.p[:32<<10])
		have += n
		if err == io.EOF && have <= limit {
			return have, nil
		}
		if err != nil && err != io.EOF {
			return 0, corrupt(Gzip, err)
		}
	}
	return 0, tooLarge(limit)
}
