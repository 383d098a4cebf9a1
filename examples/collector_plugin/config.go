package schedreceiver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
)

// validateTimeout bounds the child's look at its config.
const validateTimeout = 10 * time.Second

// Config is the block of the Collector's YAML. The four last keys are schedscope's own blocks, under their own names;
// config/reference.md of schedscope describes them.
type Config struct {
	// Binary is the schedscope program, a path or a name on PATH.
	Binary string `mapstructure:"binary"`
	// StartTimeout is how long the first child may take until it measures.
	StartTimeout time.Duration `mapstructure:"start_timeout"`
	// StopTimeout is how long a child may drain after SIGTERM; then it is killed.
	StopTimeout time.Duration `mapstructure:"stop_timeout"`
	// Restart is how long a child that has ended is mourned.
	Restart RestartConfig `mapstructure:"restart"`

	// Sched is the child's receiver: what is measured, and which intervals become spans.
	Sched map[string]any `mapstructure:"sched"`
	// Container is whose it is.
	Container map[string]any `mapstructure:"container"`
	// SchedSpans is how intervals become traces.
	SchedSpans map[string]any `mapstructure:"sched_spans"`
	// SchedMetrics is how totals become metrics.
	SchedMetrics map[string]any `mapstructure:"sched_metrics"`
}

// RestartConfig is an exponential back-off. It begins anew after a child that measured for MaxInterval.
type RestartConfig struct {
	InitialInterval time.Duration `mapstructure:"initial_interval"`
	MaxInterval     time.Duration `mapstructure:"max_interval"`
}

func defaultConfig() component.Config {
	return &Config{
		Binary:       "schedscope",
		StartTimeout: 30 * time.Second,
		StopTimeout:  10 * time.Second,
		Restart:      RestartConfig{InitialInterval: time.Second, MaxInterval: 30 * time.Second},
	}
}

// Validate tells what is wrong with our own keys, and has the child tell what is wrong with its: `otelcol validate` and
// a start refuse them alike. The child needs no privileges for that.
func (c *Config) Validate() error {
	var problems []error
	positive := func(key string, value time.Duration) {
		if value <= 0 {
			problems = append(problems, fmt.Errorf("%s: must be above 0", key))
		}
	}
	positive("start_timeout", c.StartTimeout)
	positive("stop_timeout", c.StopTimeout)
	positive("restart::initial_interval", c.Restart.InitialInterval)
	if c.Restart.MaxInterval < c.Restart.InitialInterval {
		problems = append(problems, errors.New("restart::max_interval: must not be below initial_interval"))
	}
	if len(problems) == 0 {
		problems = append(problems, c.askChild())
	}
	return errors.Join(problems...)
}

func (c *Config) askChild() error {
	binary, err := exec.LookPath(c.Binary)
	if err != nil {
		return fmt.Errorf("binary: %w; install schedscope, or say where it is", err)
	}
	folder, err := os.MkdirTemp("", "schedscope-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	file, err := c.write(folder, signals{traces: true, metrics: true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), validateTimeout)
	defer cancel()
	said, err := exec.CommandContext(ctx, binary, "validate", "--config", file).CombinedOutput()
	if err != nil {
		text := strings.ReplaceAll(strings.TrimSpace(string(said)), folder+string(filepath.Separator), "")
		return fmt.Errorf("schedscope refuses the blocks translated for it (%w):\n%s", err, text)
	}
	return nil
}
