package schedreceiver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	socketName = "otlp.sock"
	configName = "schedscope.yaml"
)

// signals are those that a pipeline of the Collector takes.
type signals struct{ traces, metrics bool }

// write puts the child's config into its folder, readable by us alone, and tells where.
func (c *Config) write(folder string, wanted signals) (string, error) {
	text, err := yaml.Marshal(c.child(folder, wanted))
	if err != nil {
		return "", fmt.Errorf("the child's config: %w", err)
	}
	file := filepath.Join(folder, configName)
	return file, os.WriteFile(file, text, 0o600)
}

// child is the config of a schedscope that sends to our socket: only the pipelines that somebody takes.
func (c *Config) child(folder string, wanted signals) map[string]any {
	pipelines := map[string]any{}
	pipeline := func(last string) map[string]any {
		return map[string]any{
			"receivers":  []string{"sched"},
			"processors": []string{"container", last, "batch"},
			"exporters":  []string{"otlp_grpc"},
		}
	}
	if wanted.traces {
		pipelines["traces"] = pipeline("sched_spans")
	}
	if wanted.metrics {
		pipelines["metrics"] = pipeline("sched_metrics")
	}
	return map[string]any{
		"receivers": map[string]any{"sched": block(c.Sched)},
		"processors": map[string]any{
			"container":     block(c.Container),
			"sched_spans":   block(c.SchedSpans),
			"sched_metrics": block(c.SchedMetrics),
			"batch":         map[string]any{},
		},
		"exporters": map[string]any{"otlp_grpc": map[string]any{
			"endpoint":    "unix://" + literal(filepath.Join(folder, socketName)),
			"tls":         map[string]any{"insecure": true},
			"compression": "none", // it does not leave the host
		}},
		"service": map[string]any{
			// its own metrics page would take the Collector's port; what it lost is in linux.sched.records.lost
			"telemetry":        map[string]any{"logs": map[string]any{"encoding": "json"}, "metrics": map[string]any{"level": "none"}},
			"shutdown_timeout": drain(c.StopTimeout).String(),
			"pipelines":        pipelines,
		},
	}
}

// drain leaves the child a tenth of the time to end by itself after it gave up sending.
func drain(stop time.Duration) time.Duration {
	return (stop - stop/10).Round(time.Millisecond)
}

// block is never null: a key without a value means the defaults.
func block(of map[string]any) any {
	if of == nil {
		return map[string]any{}
	}
	return literals(of)
}

// literals keeps `$` what it is: the Collector has expanded the block already, the child must not do it again.
func literals(value any) any {
	switch value := value.(type) {
	case string:
		return literal(value)
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, inner := range value {
			out[literal(key)] = literals(inner)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, inner := range value {
			out[i] = literals(inner)
		}
		return out
	default:
		return value
	}
}

func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }
