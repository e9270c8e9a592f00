import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

import java.io.PrintWriter;
import java.security.Security;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import strata.Keys;

/** Runs tests by JUnit, and writes one line for each to a file: verdict, name, milliseconds, reason, between tabs. */
public final class Referee implements TestExecutionListener {
    /** What RaftClusterInvocationContext says of a test that has run, for other reasons than the test's. */
    private static final String AGAIN = "again";

    private final PrintWriter out;
    private final Map<String, Integer> told = new HashMap<>(); // times that a method has run
    private long begun;

    private Referee(PrintWriter out) {
        this.out = out;
    }

    /** The arguments are the file, the classes to run, and -CLASS#METHOD for what to leave out of them. */
    public static void main(String[] args) throws Exception {
        Security.insertProviderAt(new Keys(), 1);
        List<DiscoverySelector> selectors = new ArrayList<>();
        Set<String> without = new HashSet<>();
        for (String a : List.of(args).subList(1, args.length)) {
            if (a.startsWith("-")) {
                without.add(a.substring(1));
            } else {
                selectors.add(DiscoverySelectors.selectClass(a));
            }
        }
        PostDiscoveryFilter left = test -> FilterResult.includedIf(!(test.getSource().orElse(null) instanceof MethodSource m
            && without.contains(m.getClassName() + "#" + m.getMethodName())));
        try (PrintWriter out = new PrintWriter(args[0])) {
            Launcher launcher = LauncherFactory.create();
            launcher.execute(LauncherDiscoveryRequestBuilder.request().selectors(selectors).filters(left)
                .configurationParameter("junit.jupiter.execution.timeout.testable.method.default", "90 s").build(),
                new Referee(out));
            out.println("done\t\t\t"); // no test has ended the program
        }
        System.exit(0); // whatever threads the tests have left
    }

    @Override
    public void executionStarted(TestIdentifier id) {
        begun = System.currentTimeMillis();
    }

    @Override
    public void executionSkipped(TestIdentifier id, String reason) {
        say("skipped", id, reason);
    }

    @Override
    public void executionFinished(TestIdentifier id, TestExecutionResult result) {
        Throwable t = result.getThrowable().orElse(null);
        if (t == null && id.isContainer()) {
            return; // its tests have said what there is
        }
        switch (result.getStatus()) {
            case SUCCESSFUL -> say("passed", id, "");
            case ABORTED -> say("aborted", id, String.valueOf(t.getMessage()));
            default -> {
                say("failed", id, String.valueOf(t));
                t.printStackTrace();
            }
        }
    }

    private void say(String verdict, TestIdentifier id, String reason) {
        if (reason.equals(AGAIN)) {
            return;
        }
        String line = reason.replaceAll("\\s+", " ");
        out.printf("%s\t%s\t%d\t%s%n", verdict, name(id), System.currentTimeMillis() - begun, line);
        out.flush();
    }

    /** CLASS, CLASS#METHOD, and for all but the first invocation of a method CLASS#METHOD[N]. */
    private String name(TestIdentifier id) {
        TestSource source = id.getSource().orElse(null);
        if (source instanceof ClassSource c) {
            return c.getClassName();
        }
        if (!(source instanceof MethodSource m)) {
            return id.getDisplayName();
        }
        String name = m.getClassName() + "#" + m.getMethodName();
        int nth = told.merge(name, 1, Integer::sum);
        return nth == 1 ? name : name + "[" + nth + "]";
    }
}
