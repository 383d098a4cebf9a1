package schedreceiver

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// lineMaxBytes bounds one line of the child; what is longer is told in parts.
	lineMaxBytes = 64 * 1024
	// lastWordsMax bounds what is kept of the errors of a child.
	lastWordsMax = 20
)

// logForwarder gives the child's lines to the Collector's log: JSON lines with their level and fields, anything else
// (a refusal to start, a panic) as an error.
type logForwarder struct {
	logger    *zap.Logger
	onMessage func(string)
	pending   []byte
	words     []string
}

func (f *logForwarder) Write(bytesRead []byte) (int, error) {
	f.pending = append(f.pending, bytesRead...)
	for {
		end := bytes.IndexByte(f.pending, '\n')
		switch {
		case end >= 0:
			f.line(f.pending[:end])
			f.pending = f.pending[end+1:]
		case len(f.pending) >= lineMaxBytes:
			f.flush()
		default:
			return len(bytesRead), nil
		}
	}
}

func (f *logForwarder) flush() {
	f.line(f.pending)
	f.pending = nil
}

// lastWords are the latest errors, one a line.
func (f *logForwarder) lastWords() string { return strings.Join(f.words, "\n") }

func (f *logForwarder) line(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	var fields map[string]any
	level := zapcore.ErrorLevel
	message := string(line)
	if json.Unmarshal(line, &fields) == nil {
		if said, ok := fields["msg"].(string); ok {
			message = said
		}
		if name, ok := fields["level"].(string); !ok || level.Set(name) != nil || level > zapcore.ErrorLevel {
			level = zapcore.ErrorLevel
		}
	}
	if level == zapcore.ErrorLevel {
		f.words = append(f.words, message)
		if len(f.words) > lastWordsMax {
			f.words = f.words[1:]
		}
	}
	if entry := f.logger.Check(level, message); entry != nil {
		entry.Write(zapFields(fields)...)
	}
	f.onMessage(message)
}

// zapFields are the child's own fields in a fixed order, without those that the Collector writes itself.
func zapFields(fields map[string]any) []zap.Field {
	var out []zap.Field
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch key {
		case "level", "ts", "msg", "caller":
		default:
			out = append(out, zap.Any(key, fields[key]))
		}
	}
	return out
}
