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

// api is one Kafka API as this server serves it. The table in apis.go has a row for each.
type api struct {
	key      Key
	min, max int16

	inflation int // see func inflation; set by served
	work      int // see workFactor; set by served

	// serve returns the response to a request. It may block, and ends when c.ctx does. A nil
	// response closes the connection.
	serve func(c *call, req kmsg.Request) kmsg.Response
	// waits is set if serve may block for reasons other than its own work. Then serve does not run
	// on the goroutine that reads the connection.
	waits bool
	// try, if not nil, serves a request that needs no wait. If it returns false, serve is called.
	try func(c *call, req kmsg.Request) (kmsg.Response, bool)
	// start replaces serve for requests that are pipelined; nil for other APIs. It does not block,
	// and calls done exactly once. by may be transport.Caller only on the goroutine that called
	// start.
	start func(c *call, req kmsg.Request, done func(resp kmsg.Response, by transport.Writer))
}

// call is one request being served.
type call struct {
	ctx          context.Context // ends with the connection or the server
	s            *Server
	conn         *conn
	broker       int32                    // of the connection's listener
	view         replication.View         // of that broker
	groups       *group.Coordinator       // likewise
	transactions *transaction.Coordinator // likewise
	version      int16
	clientID     string
	principal    *Principal               // of the client; immutable, never nil
	may          *acl.Authorizer          // nil: clients have all permissions
	who          acl.Client               // principal and host for may; zero if may is nil
	after        func(resp kmsg.Response) // set by the guard, completes the response; nil: none
	clientHost   string                   // in Kafka's form: "/127.0.0.1"
	discards     bool                     // see Action.DiscardRecords
	verdict      sasl.Verdict             // sasl.Serve without SASL
	fetching     *fetching                // plan that tryFetch passes to fetch; nil: none
	metered                               // use of the client's quotas
	outcome                               // result besides the response
}

// handle adapts the handler of one type of request to all requests.
func handle[Q kmsg.Request](fn func(*call, Q) kmsg.Response) func(*call, kmsg.Request) kmsg.Response {
	return func(c *call, r kmsg.Request) kmsg.Response { return fn(c, r.(Q)) }
}

// checkVersionCaps returns an error that matches ErrInvalidVersionCaps if caps has an API that is
// not served, or a version below NotServed.
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

// offers returns the APIs that a server of this Config serves, and the list of them for
// ApiVersions. The caller must not change either: all servers without version caps and telemetry
// share one copy, because tests start many servers.
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
