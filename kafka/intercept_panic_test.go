package kafka

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// panicker panics after a request was served.
type panicker struct{}

func (panicker) Before(*Exchange) Action { return Action{} }
func (panicker) After(*Exchange)         { panic("by the test") }

func TestInterceptorThatPanicsCutsTheConnection(t *testing.T) {
	s, addr := serve(t, Config{Intercept: panicker{}, Logger: slog.New(slog.DiscardHandler)})
	for _, req := range []kmsg.Request{kmsg.NewPtrMetadataRequest(), appended("t", 0, "a record")} {
		c := dial(t, addr)
		c.send(req)
		c.closed()
	}
	require.NoError(t, s.Close())
	require.True(t, whole(s), "all bytes were given back")
}
