package schedreceiver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const ready = `echo '{"level":"info","msg":"Everything is ready. Begin running and processing data."}' >&2
`

// host keeps what it is told of the component's condition.
type host struct {
	mutex  sync.Mutex
	events []*componentstatus.Event
}

func (*host) GetExtensions() map[component.ID]component.Component { return nil }

func (h *host) Report(event *componentstatus.Event) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.events = append(h.events, event)
}

func (h *host) told() (words string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, event := range h.events {
		words += event.Status().String() + " "
	}
	return words
}

type scene struct {
	*schedReceiver
	host    *host
	second  *host
	traces  *consumertest.TracesSink
	metrics *consumertest.MetricsSink
	logs    *observer.ObservedLogs
}

// play makes both of a config's receivers, which are one, around a script.
func play(t *testing.T, script string) *scene {
	t.Helper()
	config := defaultConfig().(*Config)
	config.Binary = program(t, script)
	config.StartTimeout, config.StopTimeout = 20*time.Second, 20*time.Second
	config.Restart = RestartConfig{InitialInterval: time.Millisecond, MaxInterval: 10 * time.Millisecond}
	settings := receivertest.NewNopSettings(componentType)
	core, logs := observer.New(zapcore.DebugLevel)
	settings.Logger = zap.New(core)
	s := &scene{host: &host{}, second: &host{}, traces: &consumertest.TracesSink{}, metrics: &consumertest.MetricsSink{}, logs: logs}
	factory := NewFactory()
	traces, err := factory.CreateTraces(context.Background(), settings, config, s.traces)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := factory.CreateMetrics(context.Background(), settings, config, s.metrics)
	if err != nil {
		t.Fatal(err)
	}
	s.schedReceiver = traces.(*schedReceiver)
	if metrics.(*schedReceiver) != s.schedReceiver {
		t.Fatal("two children for one config")
	}
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

func (s *scene) start(t *testing.T) {
	t.Helper()
	for _, host := range []*host{s.host, s.second} { // each pipeline starts it
		if err := s.Start(context.Background(), host); err != nil {
			t.Fatal(err)
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 2000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s did not come", what)
}

func TestWhatTheChildSendsArrives(t *testing.T) {
	s := play(t, ready+"exec sleep 1000")
	s.start(t)
	folder := s.folder
	if mode := mustStat(t, folder).Mode().Perm(); mode != 0o700 {
		t.Errorf("others may connect: %v", mode)
	}
	connection, err := grpc.NewClient("unix://"+filepath.Join(folder, socketName), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	spans := ptrace.NewTraces()
	spans.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("sched.run")
	if _, err := ptraceotlp.NewGRPCClient(connection).Export(context.Background(), ptraceotlp.NewExportRequestFromTraces(spans)); err != nil {
		t.Fatal(err)
	}
	points := pmetric.NewMetrics()
	metric := points.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	metric.SetName("linux.sched.wait.longest")
	metric.SetEmptyGauge().DataPoints().AppendEmpty().SetDoubleValue(1)
	if _, err := pmetricotlp.NewGRPCClient(connection).Export(context.Background(), pmetricotlp.NewExportRequestFromMetrics(points)); err != nil {
		t.Fatal(err)
	}
	if s.traces.SpanCount() != 1 || s.metrics.DataPointCount() != 1 {
		t.Errorf("%d spans, %d points", s.traces.SpanCount(), s.metrics.DataPointCount())
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder stays: %v", err)
	}
}

func TestAChildThatCannotStartEndsTheStart(t *testing.T) {
	s := play(t, "echo 'error: CAP_BPF and CAP_PERFMON missing' >&2; exit 1")
	err := s.Start(context.Background(), s.host)
	if err == nil || !strings.Contains(err.Error(), "exit status 1:\nerror: CAP_BPF and CAP_PERFMON missing") {
		t.Errorf("not told: %v", err)
	}
}

func TestAChildThatIsNeverReadyEndsTheStart(t *testing.T) {
	s := play(t, "exec sleep 1000")
	s.config.StartTimeout = time.Millisecond
	err := s.Start(context.Background(), s.host)
	if err == nil || !strings.Contains(err.Error(), "start_timeout") {
		t.Errorf("not told: %v", err)
	}
}

func TestAChildThatEndsIsStartedAgain(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	s := play(t, `echo x >>`+count+`
`+ready+`[ "$(wc -l <`+count+`)" -gt 2 ] && exec sleep 1000
echo '{"level":"error","msg":"the ring is gone"}' >&2; exit 3`)
	s.start(t)
	eventually(t, "the third child", func() bool {
		again := "StatusRecoverableError StatusOK StatusRecoverableError StatusOK "
		return strings.HasSuffix(s.host.told(), again) && strings.HasSuffix(s.second.told(), again)
	})
	ended := s.logs.FilterMessage("schedscope has ended; it is started again").All()
	if len(ended) != 2 || !strings.Contains(ended[0].ContextMap()["error"].(string), "exit status 3:\nthe ring is gone") {
		t.Errorf("told: %v", ended)
	}
}

func TestAChildIsAskedToEndAndThenKilled(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	s := play(t, "trap 'touch "+asked+"; exit 0' TERM\n"+ready+"while :; do sleep 0.01; done")
	s.start(t)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	mustStat(t, asked)

	s = play(t, "trap '' TERM\n"+ready+"while :; do sleep 0.01; done")
	s.config.StopTimeout = 50 * time.Millisecond
	s.start(t)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if s.logs.FilterMessage("schedscope did not end well").Len() != 1 {
		t.Errorf("not told: %v", s.logs.All())
	}
}

func TestTheChildsLogIsTheCollectors(t *testing.T) {
	s := play(t, `echo '{"level":"warn","ts":"now","caller":"a.rs:1","msg":"slow","items":7}' >&2
echo plain >&2
printf half >&2; sleep 0.1; echo ' whole' >&2
`+ready+"exec sleep 1000")
	s.start(t)
	var told []string
	for _, entry := range s.logs.All() {
		told = append(told, entry.Level.String()+" "+entry.Message)
	}
	want := "warn slow|error plain|error half whole|info Everything is ready"
	if got := strings.Join(told, "|"); !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
	if slow := s.logs.FilterMessage("slow").All()[0].ContextMap(); len(slow) != 1 || slow["items"] != 7.0 {
		t.Errorf("fields: %v", slow)
	}
}
