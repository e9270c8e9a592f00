package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/sasl"
	"github.com/stratalog/strata/kafka/internal/transport"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/transaction"
)

// api is one Kafka API as this server serves it; the table in apis.go has a row for each.
type api struct {
	key      Key
	min, max int16

	inflation int // see the function of that name; set by served
	work      int // see workFactor; likewise

	// serve answers a request. It may block, and ends when c.ctx does. nil: there is no answer.
	serve func(c *call, req kmsg.Request) kmsg.Response
	// waits says that serve may take long for other reasons than work: it is
	// called in a goroutine of its own.
	waits bool
	// try, if set, answers what can be answered without waiting; false: call serve.
	try func(c *call, req kmsg.Request) (kmsg.Response, bool)
	// start is in serve's place for requests that are pipelined: it does not block, and
	// calls done exactly once. Only on the goroutine that called start may the caller write.
	start func(c *call, req kmsg.Request, done func(resp kmsg.Response, by transport.Writer))
}

// call is one request being served.
type call struct {
	ctx          context.Context // ends with the connection or the server
	s            *Server
	conn         *conn
	broker       int32                    // whose listener it came in by
	view         replication.View         // of that broker
	groups       *group.Coordinator       // likewise
	transactions *transaction.Coordinator // likewise
	version      int16
	clientID     string
	principal    *Principal               // who asks; immutable, never nil
	may          *acl.Authorizer          // nil: everybody may do everything
	who          acl.Client               // principal and host for may; zero if may is nil
	after        func(resp kmsg.Response) // set by the guard: completes the answer by what was refused
	clientHost   string                   // as Kafka shows it: "/127.0.0.1"
	discards     bool                     // see Action.DiscardRecords
	verdict      sasl.Verdict             // on this request, where there is SASL; those that it does not concern are served
	fetching     *fetching                // what tryFetch leaves to fetch
	metered                               // by the client's quotas
	outcome                               // besides the response
}

// handle makes a handler of a typed request one of any request.
func handle[Q kmsg.Request](fn func(*call, Q) kmsg.Response) func(*call, kmsg.Request) kmsg.Response {
	return func(c *call, r kmsg.Request) kmsg.Response { return fn(c, r.(Q)) }
}

// checkVersionCaps returns why there cannot be such caps; it matches ErrInvalidVersionCaps.
func checkVersionCaps(caps map[int16]int16) error {
	for _, key := range slices.Sorted(maps.Keys(caps)) {
		if _, _, served := ServedVersions(Key(key)); !served {
			return fmt.Errorf("%w: API %d (%s) is not served", ErrInvalidVersionCaps, key, Key(key))
		}
		if caps[key] < NotServed {
			return fmt.Errorf("%w: version %d of %s", ErrInvalidVersionCaps, caps[key], Key(key))
		}
	}
	return nil
}

// offers returns the table of what a server of this Config serves and what clients are told of it.
// Neither must be changed: those of a Config that says nothing of it are made once for all servers,
// as a test starts many.
func (c *Config) offers() (map[int16]*api, []kmsg.ApiVersionsResponseApiKey) {
	if len(c.VersionCaps) == 0 && c.Telemetry.Receive == nil {
		return usualOffers()
	}
	return c.newOffers()
}

var usualOffers = sync.OnceValues(new(Config).newOffers)

func (c *Config) newOffers() (map[int16]*api, []kmsg.ApiVersionsResponseApiKey) {
	apis := served(c.VersionCaps)
	if c.Telemetry.Receive == nil {
		delete(apis, int16(GetTelemetrySubscriptions))
		delete(apis, int16(PushTelemetry))
	}
	return apis, advertise(apis)
}

// served returns the table by key, with version caps applied.
func served(caps map[int16]int16) map[int16]*api {
	m := make(map[int16]*api, len(apis))
	for _, a := range apis {
		if limit, ok := caps[int16(a.key)]; ok && limit < a.max {
			a.max = limit
		}
		a.inflation, a.work = inflation(int16(a.key)), workFactor(int16(a.key))
		if a.max >= a.min {
			m[int16(a.key)] = &a
		}
	}
	return m
}
