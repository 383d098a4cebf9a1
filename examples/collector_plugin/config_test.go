package schedreceiver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"
)

// program writes a shell script that stands for schedscope.
func program(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "schedscope")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func decode(t *testing.T, text string) *Config {
	t.Helper()
	var raw map[string]any
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatal(err)
	}
	config := defaultConfig().(*Config)
	if err := confmap.NewFromStringMap(raw).Unmarshal(config); err != nil {
		t.Fatal(err)
	}
	return config
}

func TestBlocksBecomeTheChildsConfig(t *testing.T) {
	config := decode(t, `
stop_timeout: 5s
sched: {collection_interval: 1s, select: {wait: 2ms, sample_ratio: 0.5}, include: {cgroups: ["/a$b/*"]}}
container:
sched_spans: {window: 2s}
`)
	file, err := config.write(t.TempDir(), signals{metrics: true})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(string(text), filepath.Dir(file), "/FOLDER")
	want := `exporters:
    otlp_grpc:
        compression: none
        endpoint: unix:///FOLDER/otlp.sock
        tls:
            insecure: true
processors:
    batch: {}
    container: {}
    sched_metrics: {}
    sched_spans:
        window: 2s
receivers:
    sched:
        collection_interval: 1s
        include:
            cgroups:
                - /a$$b/*
        select:
            sample_ratio: 0.5
            wait: 2ms
service:
    pipelines:
        metrics:
            exporters:
                - otlp_grpc
            processors:
                - container
                - sched_metrics
                - batch
            receivers:
                - sched
    shutdown_timeout: 4.5s
    telemetry:
        logs:
            encoding: json
        metrics:
            level: none
`
	if got != want {
		t.Errorf("got:\n%s", got)
	}
	if mode := mustStat(t, file).Mode().Perm(); mode != 0o600 {
		t.Errorf("others may read it: %v", mode)
	}
}

func mustStat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestMistakesAreTold(t *testing.T) {
	config := decode(t, "{start_timeout: 0s, restart: {initial_interval: 2s, max_interval: 1s}}")
	err := config.Validate()
	for _, key := range []string{"start_timeout", "restart::max_interval"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not told: %v", key, err)
		}
	}
	config = decode(t, "binary: /nowhere/schedscope")
	if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "binary: ") {
		t.Errorf("a program that is not there: %v", err)
	}
	if err := confmap.NewFromStringMap(map[string]any{"sched_span": nil}).Unmarshal(defaultConfig()); err == nil {
		t.Error("an unknown key passes")
	}
}

func TestTheChildIsAskedAboutItsBlocks(t *testing.T) {
	config := decode(t, "sched: {windw: 1}")
	config.Binary = program(t, `[ "$1 $2" = "validate --config" ] || exit 9
if grep -q windw "$3"; then echo "error: $3: receivers::sched::windw: unknown key" >&2; exit 1; fi`)
	err := config.Validate()
	if err == nil || !strings.Contains(err.Error(), "error: schedscope.yaml: receivers::sched::windw: unknown key") {
		t.Errorf("not told: %v", err)
	}
	config.Sched = map[string]any{"window": 1}
	if err := config.Validate(); err != nil {
		t.Errorf("refused: %v", err)
	}
	if config.StartTimeout != 30*time.Second {
		t.Errorf("the default is gone: %v", config.StartTimeout)
	}
}
