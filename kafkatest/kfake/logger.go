package kfake

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// A LogLevel is the lowest severity that is logged. The zero LogLevel logs nothing.
type LogLevel int8

// Log levels, from nothing to everything.
const (
	LogLevelNone  LogLevel = iota
	LogLevelError          // unexpected errors
	LogLevelWarn           // errors that were handled
	LogLevelInfo           // state changes
	LogLevelDebug          // single steps
)

// String returns the level in three letters. It is NON for no logging, and for an unknown level.
func (l LogLevel) String() string {
	switch l {
	case LogLevelError:
		return "ERR"
	case LogLevelWarn:
		return "WRN"
	case LogLevelInfo:
		return "INF"
	case LogLevelDebug:
		return "DBG"
	}
	return "NON"
}

// A Logger receives the log of a cluster. Logf is called concurrently.
type Logger interface {
	Logf(LogLevel, string, ...any)
}

// BasicLogger returns a Logger that writes one line to dst for each message up to a level. Writes
// are not concurrent. If dst is nil it writes nothing.
func BasicLogger(dst io.Writer, level LogLevel) Logger {
	if dst == nil {
		dst = io.Discard
	}
	return &basicLogger{dst: dst, level: level}
}

type basicLogger struct {
	level LogLevel

	mu  sync.Mutex // guards writing to dst
	dst io.Writer
}

func (b *basicLogger) Logf(level LogLevel, format string, args ...any) {
	if level > b.level {
		return
	}
	line := fmt.Sprintf("%s [%v] %s\n", time.Now().Format("15:04:05.000"), level, fmt.Sprintf(format, args...))
	b.mu.Lock()
	defer b.mu.Unlock()
	io.WriteString(b.dst, line)
}

// slogHandler passes the broker's log to a Logger.
type slogHandler struct {
	logger Logger
	attrs  string // of With, each with a space before it
	group  string // of WithGroup, with a dot after it
}

// newLogger returns a logger for the broker; nil for nil.
func newLogger(l Logger) *slog.Logger {
	if l == nil {
		return nil
	}
	return slog.New(slogHandler{logger: l})
}

func (h slogHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h slogHandler) Handle(_ context.Context, r slog.Record) error {
	level := LogLevelDebug
	switch {
	case r.Level >= slog.LevelError:
		level = LogLevelError
	case r.Level >= slog.LevelWarn:
		level = LogLevelWarn
	case r.Level >= slog.LevelInfo:
		level = LogLevelInfo
	}
	var b strings.Builder
	b.WriteString(r.Message + h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(h.text(a))
		return true
	})
	h.logger.Logf(level, "%s", b.String())
	return nil
}

func (h slogHandler) text(a slog.Attr) string {
	return fmt.Sprintf(" %s%s=%v", h.group, a.Key, a.Value)
}

func (h slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrs += h.text(a)
	}
	return h
}

func (h slogHandler) WithGroup(name string) slog.Handler {
	h.group += name + "."
	return h
}
