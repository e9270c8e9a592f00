package kafka

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A syncOrder records the file operations and the answers of a server in their order. It counts
// the answers that came too early. The batch that an answer confirms must be on stable storage
// before, in its segment or in the directory's journal. So must the segment's directory entry.
// Names are paths of the server.
type syncOrder struct {
	root string

	mu      sync.Mutex            // guards the fields below
	files   map[string]*fileOrder // by path
	batches map[string]string     // "topic-partition/base offset" -> path
	entries map[string]int64      // path of a file or directory that was made -> when, until its directory is synced
	known   map[string]bool
	now     int64
	streams map[string][]byte // incomplete answers, by connection
	answers int
	early   []string // the defect of each early answer
	syncs   int
	shared  int // the syncs of the journal among syncs
}

// fileOrder is how far a .log file is written and synced: the offset behind the last batch.
type fileOrder struct {
	written, durable int64
	// of the journal: the copies of batches since its last sync
	copies []batchCopy
}

// batchCopy is a batch in the journal. A sync of the journal makes its segment durable up to next.
type batchCopy struct {
	segment *fileOrder
	next    int64
}

func newSyncOrder(root string) *syncOrder {
	return &syncOrder{root: root, files: map[string]*fileOrder{}, batches: map[string]string{}, entries: map[string]int64{},
		known: map[string]bool{root: true}, streams: map[string][]byte{}}
}

// made records that path was created, if it did not exist.
func (o *syncOrder) made(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ; strings.HasPrefix(path, o.root+"/") && !o.known[path]; path = filepath.Dir(path) {
		o.now++
		o.known[path], o.entries[path] = true, o.now
	}
}

func (o *syncOrder) renamed(from, to string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for path, when := range o.entries {
		if path == from || strings.HasPrefix(path, from+"/") {
			delete(o.entries, path)
			o.entries[to+path[len(from):]] = when
			o.known[to+path[len(from):]] = true
		}
	}
	delete(o.known, from)
	o.now++
	o.entries[to], o.known[to] = o.now, true
}

// syncing records the start of a sync of a file or directory. The function it returns records the
// success.
func (o *syncOrder) syncing(path string) (synced func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	began := o.now
	f := o.files[path]
	var written int64
	var copies []batchCopy
	if f != nil {
		written, copies = f.written, f.copies
		f.copies = nil
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if f != nil {
			o.syncs++
			f.durable = max(f.durable, written)
			for _, c := range copies {
				c.segment.durable = max(c.segment.durable, c.next)
			}
			if len(copies) > 0 {
				o.shared++
			}
			return
		}
		for p, when := range o.entries {
			if when <= began && filepath.Dir(p) == path {
				delete(o.entries, p)
			}
		}
	}
}

// wrote records that the batches in p are in the file.
func (o *syncOrder) wrote(path string, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case strings.HasPrefix(filepath.Base(path), "strata.journal"):
		o.wroteFrameLocked(o.fileLocked(path), p)
	case strings.HasSuffix(path, ".log"):
		f := o.fileLocked(path)
		for b := range batchesIn(p) {
			o.batches[batchName(filepath.Base(filepath.Dir(path)), b.BaseOffset)] = path
			f.written = max(f.written, b.NextOffset())
		}
	}
}

func (o *syncOrder) fileLocked(path string) *fileOrder {
	if o.files[path] == nil {
		o.files[path] = &fileOrder{}
	}
	return o.files[path]
}

// wroteFrameLocked records the batches in a frame of the journal. See docs/format/directory.md.
func (o *syncOrder) wroteFrameLocked(journal *fileOrder, frame []byte) {
	const magic, fixed = "SJF1", 4 + 4 + 8 + 8 + 8
	if !strings.HasPrefix(string(frame), magic) {
		return // header, or a half that is marked free
	}
	entries := frame[fixed : fixed+int(binary.BigEndian.Uint32(frame[4:]))]
	for len(entries) > 0 {
		n := 2 + int(binary.BigEndian.Uint16(entries))
		log, rest := string(entries[2:n]), entries[n+8+8+8:] // behind tag, base offset and position
		size := 4 + int(binary.BigEndian.Uint32(rest))
		for b := range batchesIn(rest[4:size]) {
			if path, ok := o.batches[batchName(log, b.BaseOffset)]; ok {
				journal.copies = append(journal.copies, batchCopy{o.files[path], b.NextOffset()})
			}
		}
		entries = rest[size:]
	}
}

func batchName(log string, baseOffset int64) string { return fmt.Sprintf("%s/%d", log, baseOffset) }

// batchesIn yields the batches at the start of p.
func batchesIn(p []byte) iter.Seq[record.Batch] {
	return func(yield func(record.Batch) bool) {
		for len(p) >= record.HeaderSize {
			b, err := record.ParseHeader(p)
			if err != nil || b.Size() > len(p) || !yield(b) {
				return
			}
			p = p[b.Size():]
		}
	}
}

// answering records that the server is about to send p, a piece of the answers on connection conn.
// All answers are to produce requests of version 9.
func (o *syncOrder) answering(conn string, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	stream := append(o.streams[conn], p...)
	for len(stream) >= 4 && len(stream) >= 4+int(binary.BigEndian.Uint32(stream)) {
		n := 4 + int(binary.BigEndian.Uint32(stream))
		resp := &kmsg.ProduceResponse{Version: 9}
		// behind size, correlation id and tags
		if err := resp.ReadFrom(stream[4+4+1 : n]); err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := o.judgeLocked(t.Topic+"-"+strconv.Itoa(int(p.Partition)), &p); err != nil {
					return err
				}
			}
		}
		stream = stream[n:]
	}
	o.streams[conn] = stream
	return nil
}

func (o *syncOrder) judgeLocked(dir string, p *kmsg.ProduceResponseTopicPartition) error {
	if p.ErrorCode != 0 {
		return fmt.Errorf("%s answers error %d", dir, p.ErrorCode)
	}
	o.answers++
	path, ok := o.batches[batchName(dir, p.BaseOffset)]
	switch {
	case !ok:
		o.early = append(o.early, fmt.Sprintf("%s: offset %d is not written", dir, p.BaseOffset))
		return nil
	case o.files[path].durable <= p.BaseOffset:
		o.early = append(o.early, fmt.Sprintf("%s: offset %d, synced up to %d", path, p.BaseOffset, o.files[path].durable))
		return nil
	}
	for ; path != o.root; path = filepath.Dir(path) {
		if _, pending := o.entries[path]; pending {
			o.early = append(o.early, fmt.Sprintf("%s: the directory that names it is not synced", path))
			return nil
		}
	}
	return nil
}

// A watchedFS reports file operations to a syncOrder.
type watchedFS struct {
	vfs.FS
	order *syncOrder
}

func (f watchedFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	if flag&os.O_CREATE != 0 {
		f.order.made(name)
	}
	return watchedFile{file, f.order}, nil
}

func (f watchedFS) MkdirAll(name string, perm fs.FileMode) error {
	err := f.FS.MkdirAll(name, perm)
	f.order.made(name)
	return err
}

func (f watchedFS) Rename(from, to string) error {
	err := f.FS.Rename(from, to)
	if err == nil {
		f.order.renamed(from, to)
	}
	return err
}

func (f watchedFS) SyncDir(name string) error {
	synced := f.order.syncing(name)
	err := f.FS.SyncDir(name)
	if err == nil {
		synced()
	}
	return err
}

type watchedFile struct {
	vfs.File
	order *syncOrder
}

func (f watchedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.order.wrote(f.Name(), p[:n])
	return n, err
}

func (f watchedFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	var all []byte
	for _, b := range bufs {
		all = append(all, b...)
	}
	n, err := f.File.WritevAt(bufs, off)
	f.order.wrote(f.Name(), all[:n])
	return n, err
}

func (f watchedFile) Sync() error {
	synced := f.order.syncing(f.Name())
	err := f.File.Sync()
	if err == nil {
		synced()
	}
	return err
}

// A watchedListener reports answers to a syncOrder.
type watchedListener struct {
	net.Listener
	order *syncOrder
}

func (l watchedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return watchedConn{nc, l.order}, nil
}

type watchedConn struct {
	net.Conn
	order *syncOrder
}

func (c watchedConn) Write(p []byte) (int, error) {
	if err := c.order.answering(c.RemoteAddr().String(), p); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

const (
	orderedTopic      = "ordered"
	orderedPartitions = 3
)

// produceMany sends n requests of one record to each of the topic's partitions in turn. It uses
// several clients at once, and each waits for its answers.
func produceMany(t testing.TB, addr string, clients, n, valueBytes int) {
	t.Helper()
	value := make([]byte, valueBytes)
	var g errgroup.Group
	for i := range clients {
		c := dial(t, addr)
		g.Go(func() error {
			for k := i; k < n; k += clients {
				req := kmsg.NewPtrProduceRequest()
				req.SetVersion(9)
				req.Acks, req.TimeoutMillis = -1, 60_000
				req.Topics = []kmsg.ProduceRequestTopic{{Topic: orderedTopic, Partitions: []kmsg.ProduceRequestTopicPartition{
					{Partition: int32(k % orderedPartitions), Records: batch("k", string(value))},
				}}}
				resp := c.ask(req).(*kmsg.ProduceResponse)
				if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
					return fmt.Errorf("produce: error %d", code)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}

// watchedRun serves n produce requests over a cluster in memory whose files and connections are
// watched. The segments are small enough to roll.
func watchedRun(t *testing.T, n int, properties map[string]string) *syncOrder {
	t.Helper()
	order := newSyncOrder("/data")
	cluster, err := strata.Open(strata.Config{Dir: "/data", FS: watchedFS{vfs.Mem(), order}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	require.NoError(t, cluster.CreateTopic(t.Context(), orderedTopic, topic.Config{Partitions: orderedPartitions, Properties: properties}))
	s := NewServer(cluster, Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(cluster.Controller(), watchedListener{ln, order}) }()
	produceMany(t, ln.Addr().String(), 32, n, 8<<10)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-ended, ErrServerClosed)
	require.Equal(t, n, order.answers)
	return order
}

// Checklist row D14, as the file system and the connections see it.
// TestSystemCallsSyncBeforeTheyAnswer checks the system calls.
func TestEveryAnswerFollowsTheSyncOfItsSegment(t *testing.T) {
	order := watchedRun(t, 2000, map[string]string{"segment.bytes": "1048576"})
	require.Empty(t, order.early)
	require.Greater(t, len(order.files), 2*orderedPartitions, "segments rolled")
	require.Positive(t, order.syncs)
	t.Logf("%d syncs, %d of them of the journal", order.syncs, order.shared)
}

// Without a sync before the answer the test must find each answer early.
func TestAnswersWithoutSyncAreSeenToBeEarly(t *testing.T) {
	order := watchedRun(t, 200, map[string]string{"flush.ms": "3600000"})
	require.Len(t, order.early, 200)
}
