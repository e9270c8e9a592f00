package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// NotServed is a version cap that removes an API.
const NotServed int16 = -1

// An Exchange is one request with its response.
type Exchange struct {
	Broker       int32  // broker of the listener that received the request
	Conn         uint64 // number of the connection, unique in a server, from 1 on
	ClientID     string
	Key, Version int16
	Correlation  int32

	Request  kmsg.Request
	Response kmsg.Response // nil: no response, or none yet

	Received, Answered time.Time
}

// An Interceptor gets every request of a server and can change how it is handled. Tests use it to
// inject faults and to keep histories.
//
// Both methods are called for every request, Before first, with the same Exchange, on a goroutine
// of its connection. Calls for different connections are concurrent. The methods must not block.
// They must not change the messages, except in Action.Edit, and must not keep bytes of records.
type Interceptor interface {
	// Before is called before a request is served.
	Before(x *Exchange) Action
	// After is called before the response is written. It is also called if there is no response:
	// because the request has none, it was dropped, or the connection is being cut.
	After(x *Exchange)
}

// An Action changes how a request is handled. The zero Action serves it.
type Action struct {
	Delay time.Duration     // pause before all other effects; later requests on the connection wait too
	Holds []<-chan struct{} // channels to wait for, until each is closed, after Delay

	Respond func(kmsg.Request) kmsg.Response  // returns the response, and the request is not served; a nil result: no response
	Serve   kmsg.Request                      // request to serve instead, of the same API and version; nil: the request itself
	Edit    func(kmsg.Request, kmsg.Response) // changes the response after serving

	DropRequest bool // neither serve nor answer; the connection stays open
	DropReply   bool // serve but do not answer; the connection stays open
	CloseBefore bool // cut the connection instead of serving
	CloseAfter  bool // serve, and cut the connection instead of answering

	// DiscardRecords discards the records of a produce request after they are checked: see
	// partition.ProduceRequest. It has no effect on other requests.
	DiscardRecords bool

	// ThrottleMs is the throttle time in the response, if the response has that field. Later
	// requests of the connection are not read for that time. 0 means no change. Kafka: quotas,
	// KIP-219.
	ThrottleMs int32
}
