package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// NotServed as a version cap: the API is not offered at all.
const NotServed int16 = -1

// An Exchange is one request and what became of it.
type Exchange struct {
	Broker       int32  // by whose listener it came in
	Conn         uint64 // numbers the connections of a server, from 1 on
	ClientID     string
	Key, Version int16
	Correlation  int32

	Request  kmsg.Request
	Response kmsg.Response // nil: there is none (yet)

	Received, Answered time.Time
}

// An Interceptor sees every request of a server and can decide what becomes of it. Tests
// inject faults with it and keep histories.
//
// Both methods are called for every request, Before first, with the same Exchange, on a goroutine
// of its connection; those of different connections at the same time. They must not block. The
// messages must not be changed, except by Action.Edit, nor must bytes of records be kept.
type Interceptor interface {
	// Before is asked before a request is served.
	Before(x *Exchange) Action
	// After is told when the answer is about to be written, or that there is none: because the
	// request has none, it was dropped or the connection is being cut.
	After(x *Exchange)
}

// An Action is what to do with a request instead of, or on top of,
// serving it. The zero Action serves it.
type Action struct {
	Delay time.Duration     // before anything else; requests behind it on the connection wait too
	Holds []<-chan struct{} // then wait for each of them to be closed

	Respond func(kmsg.Request) kmsg.Response  // answer with its result instead of serving; nil: no answer
	Serve   kmsg.Request                      // serve this one instead, of the same API and version; nil: the request itself
	Edit    func(kmsg.Request, kmsg.Response) // change the answer after serving

	DropRequest bool // neither serve nor answer; the connection goes on
	DropReply   bool // serve but do not answer; the connection goes on
	CloseBefore bool // cut the connection instead of serving
	CloseAfter  bool // serve, and cut the connection instead of answering

	// DiscardRecords has the records of a produce request thrown away once they are checked: see
	// partition.ProduceRequest. It says nothing of other requests.
	DiscardRecords bool

	// ThrottleMs is set in the answer, where it has a place for it, and the next requests of the
	// connection are left alone for that long. 0: as it is. Kafka: quotas, KIP-219.
	ThrottleMs int32
}
