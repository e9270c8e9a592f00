package org.apache.kafka.common.test.junit;

import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

import java.util.List;

/**
 * Gives a test of Kafka's a cluster, in place of the class of this name in Kafka's test framework: here it is
 * a strata serve. The framework makes one for each cluster that a test's annotations ask for.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String test;
    private final ClusterConfig config;
    private final boolean combined; // the brokers are the controllers too

    public RaftClusterInvocationContext(String test, ClusterConfig config, boolean combined) {
        this.test = test;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int invocation) {
        return test + " [" + invocation + "] " + String.join(",", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        StrataCluster cluster = new StrataCluster(config, combined ? Type.CO_KRAFT : Type.KRAFT);
        ClusterInstanceParameterResolver resolver = new ClusterInstanceParameterResolver(cluster);
        // Where the controllers are makes no difference here: one of the two is enough.
        if (combined && config.clusterTypes().contains(Type.KRAFT)) {
            ExecutionCondition again = context -> ConditionEvaluationResult.disabled("again");
            return List.of(again, resolver);
        }
        BeforeEachCallback start = context -> {
            if (config.isAutoStart()) {
                cluster.start();
            }
        };
        AfterTestExecutionCallback stop = context -> cluster.stop();
        AfterEachCallback inAnyCase = context -> cluster.stop();
        return List.of(start, stop, inAnyCase, resolver);
    }
}
