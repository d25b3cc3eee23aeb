package libraries;

import static libraries.Show.show;

import org.springframework.data.redis.core.RedisTemplate;
import org.springframework.data.redis.serializer.RedisSerializer;
import org.springframework.session.Session;
import org.springframework.session.SessionRepository;
import org.springframework.session.data.redis.RedisSessionRepository;

/** Spring Session over Redis. */
final class SpringSession {
    public static void main(String[] arguments) {
        Show.run(
                () -> {
                    var template = new RedisTemplate<String, Object>();
                    template.setKeySerializer(RedisSerializer.string());
                    template.setHashKeySerializer(RedisSerializer.string());
                    template.setConnectionFactory(SpringData.factory());
                    template.afterPropertiesSet();
                    tried(new RedisSessionRepository(template));
                });
    }

    private static <S extends Session> void tried(SessionRepository<S> sessions) {
        S session = sessions.createSession();
        session.setAttribute("user", "ada");
        sessions.save(session);
        S again = sessions.findById(session.getId());
        show("session", again.<String>getAttribute("user"), again.isExpired());
        sessions.deleteById(session.getId());
        show("gone", sessions.findById(session.getId()));
    }
}
