package link

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/uncleared"
)

// Produce sends a produce request to a broker. It calls written at most once, when the request is
// encoded: requests of calls that begin after that reach the broker later. maxVersion bounds the
// version of the request; negative: no bound.
func (c *Client) Produce(ctx context.Context, broker int32, req *kmsg.ProduceRequest, maxVersion int16, written func()) (*kmsg.ProduceResponse, error) {
	resp, err := c.Broker(ctx, broker, &orderedProduce{ProduceRequest: req, maxVersion: maxVersion, written: written})
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.ProduceResponse), nil
}

// ProduceUnacknowledged sends a produce request with acks=0. It returns when the request is
// written, and must be used with Config.Unacknowledged.
func (c *Client) ProduceUnacknowledged(ctx context.Context, broker int32, req *kmsg.ProduceRequest) error {
	_, err := c.Broker(ctx, broker, req)
	return err
}

// An orderedProduce reports when kgo has encoded it: kgo encodes and writes the requests of one
// connection one after the other.
type orderedProduce struct {
	*kmsg.ProduceRequest
	maxVersion int16
	written    func()
	once       sync.Once
}

// partitionOverhead is about the size of a partition in a request, without its batch and with the
// name of its topic.
const partitionOverhead = 64

func (r *orderedProduce) MaxVersion() int16 {
	return bound(r.ProduceRequest.MaxVersion(), r.maxVersion)
}

// AppendTo implements kmsg.Request. It makes room for all batches at once: without that the buffer
// is copied with each of them.
func (r *orderedProduce) AppendTo(dst []byte) []byte {
	size := 0
	for i := range r.Topics {
		for k := range r.Topics[i].Partitions {
			size += len(r.Topics[i].Partitions[k].Records) + partitionOverhead
		}
	}
	dst = r.ProduceRequest.AppendTo(uncleared.Grow(dst, size))
	r.once.Do(r.written)
	return dst
}

func bound(version, most int16) int16 {
	if most >= 0 {
		return min(version, most)
	}
	return version
}

// AtMost returns req with a bound on its version.
func AtMost(version int16, req kmsg.Request) kmsg.Request {
	if f, ok := req.(*kmsg.FetchRequest); ok {
		return boundedFetch{bounded{req, version}, f.MaxWaitMillis}
	}
	return bounded{req, version}
}

type bounded struct {
	kmsg.Request
	most int16
}

func (b bounded) MaxVersion() int16 { return min(b.Request.MaxVersion(), b.most) }

// A boundedFetch is a kmsg.TimeoutRequest, since kgo adds the wait of other types to its timeout.
type boundedFetch struct {
	bounded
	wait int32
}

func (b boundedFetch) Timeout() int32 { return b.wait }
